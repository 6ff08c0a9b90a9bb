package redisstream

// Source says which streams a Consumer reads. Topic makes one.
type Source struct{ topic string }

// Topic is a RedisEvents topic, given by its bare name: orders is read from the streams s:{orders}:0 and on, behind
// Options.KeyPrefix. How many partitions it has is what its meta hash says, or Options.Partitions.
func Topic(name string) Source { return Source{topic: name} }
