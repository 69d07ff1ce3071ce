"""Post-processing that makes embeddings more isotropic, fitted on some points and applied to any.

Every method is a function of points [n, d] that returns a ``Fitted``, whose ``apply`` maps points [m, d]; its
arguments and its source stand in ``isotropy.catalog.METHODS``. Start from ``isotropy.postprocess.methods`` (fit by
name) and ``isotropy.postprocess.held_out`` (what a method does to rows it was not fitted on). Nothing is imported here.
"""
