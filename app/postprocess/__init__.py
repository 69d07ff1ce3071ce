"""Methods of post-processing: their sliders and their trials."""
