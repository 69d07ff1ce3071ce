"""Small clouds whose measures are known ahead: at every position of the sliders, computed by ``workers.playground``."""
