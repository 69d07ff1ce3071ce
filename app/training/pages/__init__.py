"""Pages that launch, and the queue."""
