"""What each dataset is."""
