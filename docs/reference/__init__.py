"""What the pages of reference are made of."""
