"""Post-processing that makes embeddings more isotropic, fitted on some points and applied to any.

A method takes points [n, d] and returns a ``FittedMap``, whose ``apply`` maps points [m, d]. Parameters and sources are
in ``isotropy.catalog.METHODS``. Start from ``postprocess.methods`` or ``postprocess.held_out``; nothing is imported
here.
"""
