"""What users say of an embedding or an experiment: name, notes, tags, star, archive."""
