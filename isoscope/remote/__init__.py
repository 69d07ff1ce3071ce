"""What a dashboard's JSON API does, by noun; ``isoscope.client`` joins them."""
