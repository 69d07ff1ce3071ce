from hypothesis import settings

# The machine that runs the tests is shared: how long an example takes says nothing about the code.
settings.register_profile("isoscope", deadline=None, max_examples=60)
settings.load_profile("isoscope")
