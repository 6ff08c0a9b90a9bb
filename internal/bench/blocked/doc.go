// Package blocked measures what a Consumer keeps in memory while every start is refused: an hour of virtual time, on
// streams that hold far more than may be read ahead.
package blocked
