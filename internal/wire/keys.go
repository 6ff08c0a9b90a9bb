package wire

import "strconv"

// Keys names the Redis keys of one topic. Topic and consumer names are used unescaped. Every key has the hash tag
// {topic}, so that in a cluster they share a slot.
type Keys struct {
	Prefix string // begins every key, without a separator; may be empty
	Topic  string
}

// Stream is the stream of one partition.
func (k Keys) Stream(partition int) string {
	return k.Prefix + "s:{" + k.Topic + "}:" + strconv.Itoa(partition)
}

// Positions is the hash of a consumer's positions, one field per partition.
func (k Keys) Positions(consumer string) string {
	return k.Prefix + "p:{" + k.Topic + "}:" + consumer
}

// PositionsMeta is the hash of the positions' metadata, such as when and by whom each was written.
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

// Parked is the stream of the entries that a consumer has parked. What kind of key it is stands before the hash tag,
// so that no consumer's name can collide with it; RedisEvents uses other words there.
func (k Keys) Parked(consumer string) string {
	return k.Prefix + "parked:{" + k.Topic + "}:" + consumer
}

// ParkedIndex is the hash of which entries are in the parked stream.
func (k Keys) ParkedIndex(consumer string) string {
	return k.Prefix + "parked-index:{" + k.Topic + "}:" + consumer
}

// ParkedGone is the hash of the entries that were removed from the parked stream before the position had passed them.
func (k Keys) ParkedGone(consumer string) string {
	return k.Prefix + "parked-gone:{" + k.Topic + "}:" + consumer
}
