"""The directional certificate: the class is measured along one direction and only bounded across it."""
