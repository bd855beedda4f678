"""The methods of synthesis, one file each. Entry points in group `sugarbush.methods` add others."""
