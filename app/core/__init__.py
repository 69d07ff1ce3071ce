"""What every room of app stands on: settings, messages of validation, the process."""
