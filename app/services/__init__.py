"""What can be done: verbs over rows, files and jobs, each in one transaction, for pages and API alike."""
