"""What the API takes and answers with. NaN does not occur: a missing number is null with its reason."""
