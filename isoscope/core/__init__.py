"""What every floor shares: errors in the user's words, numbers and names as people read them, the sizes of numbers."""
