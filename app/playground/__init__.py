"""Small clouds with precomputed measures at every position of the sliders: see ``workers.playground``."""
