package redisstream

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

// share is one instance's share of a topic's partitions.
type share struct{ index, count int }

// share takes it from the options, else from the environment.
func (o Options) share(log *slog.Logger) share {
	s := share{index: 0, count: o.InstanceCount}
	if s.count == 0 {
		var found bool
		if s.count, found = fromEnvironment(log, envInstanceCount, 1); !found {
			s.count = 1
		}
	}
	if o.InstanceIndex != nil {
		s.index = *o.InstanceIndex
		return s
	}
	index, found := fromEnvironment(log, envInstanceIndex, 0)
	if !found {
		index, _ = podOrdinal(os.Getenv(envPodName))
	}
	s.index = index
	return s
}

func fromEnvironment(log *slog.Logger, name string, least int) (int, bool) {
	value := os.Getenv(name)
	if value == "" {
		return 0, false
	}
	number, err := strconv.ParseUint(value, 10, 31)
	if err != nil || int(number) < least {
		log.Warn("environment variable is out of range, ignored", slog.String("name", name), slog.String("value", value))
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

// owned are the partitions of a share: contiguous; the first instances have one more where the number does not divide.
func (s share) owned(partitions int) []int {
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

// instanceID marks the positions that this process writes. A pod that restarts under the same name is the same writer.
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
