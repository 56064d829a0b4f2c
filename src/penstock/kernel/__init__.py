"""The model on columns: assign, reduce, merge, fire. Polars over Arrow, without Spark and without a database."""
