"""An app as a graph of operators."""
