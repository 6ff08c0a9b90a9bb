package restatestart

import (
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/redisevents/restatestart/internal/wire"
)

// Environment that RedisEvents reads in .NET and Go alike.
const (
	envInstanceIndex = "STREAMS_INSTANCE_INDEX"
	envInstanceCount = "STREAMS_INSTANCE_COUNT"
	envPodName       = "POD_NAME"
)

// split is one instance's share of a topic's partitions.
type split struct{ index, count int }

// split finds the share: from the options, else from the environment.
func (o ConsumerOptions) split() split {
	s := split{index: 0, count: o.InstanceCount}
	if s.count == 0 {
		var found bool
		if s.count, found = o.fromEnvironment(envInstanceCount, 1); !found {
			s.count = 1
		}
	}
	if o.InstanceIndex != nil {
		s.index = *o.InstanceIndex
		return s
	}
	index, found := o.fromEnvironment(envInstanceIndex, 0)
	if !found {
		index, _ = podOrdinal(os.Getenv(envPodName))
	}
	s.index = index
	return s
}

func (o ConsumerOptions) fromEnvironment(name string, least int) (int, bool) {
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(number) < least {
		o.Logger.Warn("environment variable is not a number in range and counts as not set", slog.String("name", name), slog.String("value", text))
		return 0, false
	}
	return int(number), true
}

// podOrdinal is the number behind the last dash of a pod's name: svc-3 is number 3, svc-7d4f8b-x2k9p has none.
func podOrdinal(pod string) (int, bool) {
	dash := strings.LastIndexByte(pod, '-')
	if dash <= 0 {
		return 0, false
	}
	number, err := strconv.ParseUint(pod[dash+1:], 10, 31)
	return int(number), err == nil
}

// owned are the partitions of a share: contiguous, the first instances taking one more where it does not divide.
func (s split) owned(partitions int) []int {
	if s.index >= s.count {
		return nil
	}
	size, rest := partitions/s.count, partitions%s.count
	first := s.index*size + min(s.index, rest)
	if s.index < rest {
		size++
	}
	owned := make([]int, size)
	for i := range owned {
		owned[i] = first + i
	}
	return owned
}

// instanceID is what positions written by this process are marked with. A pod that is started again under its
// name is the same writer.
func instanceID() wire.InstanceID {
	if pod := os.Getenv(envPodName); pod != "" {
		return wire.DeriveInstanceID(pod)
	}
	if index := os.Getenv(envInstanceIndex); index != "" {
		if host, err := os.Hostname(); err == nil {
			return wire.DeriveInstanceID(host + "#" + index)
		}
	}
	return wire.RandomInstanceID()
}
