"""Post-processing that makes embeddings more isotropic, fitted on some points and applied to any.

A method takes points [n, d] and returns a ``Fitted``, whose ``apply`` maps points [m, d]; ``isotropy.catalog.METHODS``
lists parameters and sources. Start from ``postprocess.methods`` or ``postprocess.held_out``. Nothing is imported here.
"""
