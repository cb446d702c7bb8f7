"""MuSeR: long histories, several interests, item semantics and a refreshed cache (2609.23677)."""
