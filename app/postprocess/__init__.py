"""Methods of post-processing: their sliders, and what a trial changed."""
