"""The methods, one file each: the settings of a method are the method."""
