"""Models that learn on a stream: what a user derives from, the ready ones, and what is stored of them."""

from penstock.learning.counts import Rates
from penstock.learning.definition import Learning
from penstock.learning.factors import Factors
from penstock.learning.linear import LinearRegression, LogisticRegression
from penstock.learning.merging import Update, averaged, summed
from penstock.learning.model import Model
from penstock.learning.spread import spread
from penstock.learning.stored import StoredModel, load
from penstock.learning.weights import Weights

__all__ = [
    "Factors",
    "Learning",
    "LinearRegression",
    "LogisticRegression",
    "Model",
    "Rates",
    "StoredModel",
    "Update",
    "Weights",
    "averaged",
    "load",
    "spread",
    "summed",
]
