"""Stored values as instances of an application's classes, by which it has its payloads checked."""

from fairlane.conversion._annotations import bare, converter
from fairlane.conversion._models import undecodable, validated
from fairlane.conversion._values import Convert

__all__ = ("Convert", "bare", "converter", "undecodable", "validated")
