"""Pages of data sets, launch forms and the queue."""
