"""What runs the lessons and keeps their verdicts."""
