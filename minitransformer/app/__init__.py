"""What makes a program of the models: data, training, tasks, the command line, and measurements."""
