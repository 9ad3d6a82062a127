"""Imports and exports of files."""
