"""Text files of many formats, read with errors that name the line."""
