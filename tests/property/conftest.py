from hypothesis import settings

# Test machines are shared, so the time of an example says nothing about the code.
settings.register_profile("isoscope", deadline=None, max_examples=60)
settings.load_profile("isoscope")
