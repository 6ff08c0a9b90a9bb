// Package report makes a table of what was measured: medians, ratios of medians, and whether a target is met.
package report
