"""Training penalties: torch modules that take points [n, d] and return a scalar to add to the loss.

For each, lam > 0 asks for more isotropy and lam < 0 for less. docs/regularizers.md compares them;
``isotropy.catalog.REGULARIZERS`` has a record of each.

With ``across_processes`` a penalty is that of the points of all processes of a run: see ``isotropy.distributed``.
"""
