"""Training penalties: torch modules that take points [n, d] and return a scalar to add to the loss.

lam > 0 makes points more isotropic, lam < 0 less. ``across_processes`` takes the points of all processes
(``isotropy.distributed``). See docs/regularizers.md and ``isotropy.catalog.REGULARIZERS``.
"""
