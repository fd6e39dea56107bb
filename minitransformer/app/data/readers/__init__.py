"""Text files of many formats, read with errors that name the line."""

from minitransformer.app.data.readers.documents import read_documents, read_pairs, read_sections
from minitransformer.app.data.readers.labelled import LabelledDocuments, read_labelled

__all__ = ["LabelledDocuments", "read_documents", "read_labelled", "read_pairs", "read_sections"]
