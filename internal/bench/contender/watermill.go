package contender

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// mill is watermill as its documentation has it: a router with the middleware of its examples and a handler for each
// topic, which subscribes under a consumer group. A subscription delivers one message at a time, so as many starts
// are under way as there are topics, whatever the parallelism.
type mill struct {
	task   Task
	client *http.Client
	prefix string
	left   atomic.Int64
	done   chan struct{}
}

func newWatermill(task Task) *mill { return &mill{task: task, client: tunedClient(task.Parallelism)} }

func (m *mill) round(ctx context.Context, prefix string, watch *stopwatch) error {
	m.prefix, m.done = prefix, make(chan struct{})
	m.left.Store(int64(m.task.Messages))
	logger := watermill.NopLogger{}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return err
	}
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: 100 * time.Millisecond, Logger: logger}
	router.AddMiddleware(middleware.CorrelationID, retry.Middleware, middleware.Recoverer)
	subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: redisClient(m.task), ConsumerGroup: prefix, BlockTime: block,
	}, logger)
	if err != nil {
		return err
	}
	for partition := range m.task.Partitions {
		router.AddConsumerHandler(strconv.Itoa(partition), WatermillStream(m.task.Topic, partition), subscriber, m.handle)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	watch.begin()
	go func() { ended <- router.Run(running) }()
	select {
	case <-m.done:
	case err := <-ended:
		watch.end()
		return errors.Join(errors.New("it ended early"), err)
	}
	watch.end()
	// Closes the subscriber and its client too.
	return errors.Join(router.Close(), <-ended)
}

func (m *mill) handle(message *message.Message) error {
	var value bet
	if err := json.Unmarshal(message.Payload, &value); err != nil {
		return err
	}
	body, err := json.Marshal(payout{BetID: value.ID, Amount: value.Amount})
	if err != nil {
		return err
	}
	target := m.task.Ingress + "/" + Workflow + "/" + m.prefix + value.Claim + "/" + Handler + "/send"
	if err := post(message.Context(), m.client, target, body); err != nil {
		return err
	}
	if m.left.Add(-1) == 0 {
		close(m.done)
	}
	return nil
}

func (m *mill) close() error {
	m.client.CloseIdleConnections()
	return nil
}

// WatermillFields are the fields of message number n as watermill's publisher writes them.
func WatermillFields(n int) ([]any, error) {
	sent := message.NewMessage(watermill.NewUUID(), []byte(Body(n, BodySize)))
	fields, err := redisstream.DefaultMarshallerUnmarshaller{}.Marshal("", sent)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, 2*len(fields))
	for name, value := range fields {
		list = append(list, name, value)
	}
	return list, nil
}
