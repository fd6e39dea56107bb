"""One file a family of models: what its description means in our terms, and which of its arrays is which of ours."""
