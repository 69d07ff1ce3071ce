"""What ``isoscope doctor`` looks at. Every check takes the settings, changes nothing for good, and yields findings."""
