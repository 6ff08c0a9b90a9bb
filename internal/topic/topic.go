// Package topic reads the meta hash of a RedisEvents topic, and checks the names of topics and consumers.
package topic

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// CheckName refuses what is not a bare topic name.
func CheckName(topic string) error {
	switch {
	case topic == "":
		return errors.New("the topic is empty")
	case strings.ContainsAny(topic, "{}"):
		return fmt.Errorf("the topic %q holds braces: give its bare name, such as orders for the streams s:{orders}:0 and so on", topic)
	default:
		return nil
	}
}

// CheckConsumer refuses names that a consumer cannot have. The error begins with the field's name.
func CheckConsumer(consumer string) error {
	switch {
	case consumer == "":
		return errors.New("Consumer: a name is required")
	case strings.HasSuffix(consumer, ":meta"):
		return fmt.Errorf("Consumer: %q ends in :meta, the key of another consumer's meta hash", consumer)
	default:
		return nil
	}
}

// IsNil reports that a value is nil, or an interface with a nil pointer, func or map in it, such as a nil *redis.Client.
func IsNil(value any) bool {
	inner := reflect.ValueOf(value)
	switch inner.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return inner.IsNil()
	default:
		return value == nil
	}
}

// ErrVersion is the error of a topic that another version of this library has to read. It is permanent.
var ErrVersion = errors.New("unknown wire version")

// Meta has the fields of the meta hash that a consumer reads, empty where they are not set.
type Meta struct{ Partitions, Version string }

// ReadMeta reads the meta hash of a topic. A hash that is not there has empty fields.
func ReadMeta(ctx context.Context, client redis.UniversalClient, keys wire.Keys) (Meta, error) {
	values, err := client.HMGet(ctx, keys.Meta(), wire.MetaPartitions, wire.MetaVersion).Result()
	if err != nil {
		return Meta{}, fmt.Errorf("read topic meta %s: %w", keys.Meta(), err)
	}
	var meta Meta
	meta.Partitions, _ = values[0].(string)
	meta.Version, _ = values[1].(string)
	return meta, nil
}

// Count is the number of partitions, 0 where it is not set or unreadable. The error is ErrVersion.
func (m Meta) Count() (int, error) {
	if v, err := strconv.Atoi(m.Version); err == nil && v != wire.Version {
		return 0, fmt.Errorf("%w %d, this package reads %d", ErrVersion, v, wire.Version)
	}
	count, _ := strconv.Atoi(m.Partitions) // RedisEvents treats an unreadable one as not set
	return max(count, 0), nil
}
