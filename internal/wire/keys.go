package wire

import "strconv"

// Keys names the Redis keys of one topic. Topic and consumer names are used as they are. Every key of a
// topic carries the hash tag {topic}, so that in a cluster they share a slot.
type Keys struct {
	Prefix string // put in front of every key as it is, no separator added; may be empty
	Topic  string
}

// Stream is the stream of one partition.
func (k Keys) Stream(partition int) string {
	return k.Prefix + "s:{" + k.Topic + "}:" + strconv.Itoa(partition)
}

// Positions is the hash of a consumer's positions, one field a partition.
func (k Keys) Positions(consumer string) string {
	return k.Prefix + "p:{" + k.Topic + "}:" + consumer
}

// PositionsMeta is the hash that tells when and by whom each position was written. Nothing depends on it.
func (k Keys) PositionsMeta(consumer string) string {
	return k.Positions(consumer) + ":meta"
}

// Meta is the hash that describes the topic.
func (k Keys) Meta() string {
	return k.Prefix + "m:{" + k.Topic + "}"
}

// Fields of the topic meta hash that a consumer reads.
const (
	MetaPartitions = "partitions"
	MetaVersion    = "v"
)

// Parked is the stream of the entries that a consumer put aside. The kind of key stands in front of the tag, where no
// name of a consumer can imitate it, and in front of it RedisEvents has other words.
func (k Keys) Parked(consumer string) string {
	return k.Prefix + "parked:{" + k.Topic + "}:" + consumer
}

// ParkedIndex is the hash that tells which entries stand in the parked stream.
func (k Keys) ParkedIndex(consumer string) string {
	return k.Prefix + "parked-index:{" + k.Topic + "}:" + consumer
}

// ParkedGone is the hash of the entries that left the parked stream before the position had passed them.
func (k Keys) ParkedGone(consumer string) string {
	return k.Prefix + "parked-gone:{" + k.Topic + "}:" + consumer
}
