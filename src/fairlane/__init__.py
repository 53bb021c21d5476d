"""Fairlane: FIFO message groups on the MongoDB you already run, for asyncio."""

__version__ = "0.1.0"
