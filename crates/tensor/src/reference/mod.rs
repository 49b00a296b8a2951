//! The plain backend: the oracle of accuracy.
