"""The engine: owns the models, runs generations, and lives in a child process of the interface."""
