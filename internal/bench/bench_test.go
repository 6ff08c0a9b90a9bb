package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/report"
)

// The test binary has the roles of the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleSink, roleContender:
			main()
			return
		}
	}
	os.Exit(m.Run())
}

func TestCasesAreChosenByTheBeginningOfTheirNames(t *testing.T) {
	t.Parallel()
	names := func(chosen []testCase) (names []string) {
		for _, c := range chosen {
			names = append(names, c.name)
		}
		return names
	}
	all, err := choose("")
	require.NoError(t, err)
	assert.Len(t, all, len(cases()))
	chosen, err := choose("null-3,handle,filter")
	require.NoError(t, err)
	assert.Equal(t, []string{"null-32", "filter-1", "filter-4", "handle"}, names(chosen))
	_, err = choose("nothing")
	require.Error(t, err)
}

func TestMessagesAreScaledToWhatDividesThem(t *testing.T) {
	t.Parallel()
	b := bench{scale: 0.01}
	assert.Equal(t, 200, b.messages(20_000, 4))
	assert.Equal(t, 4, b.messages(10, 4), "never none")
	assert.Equal(t, 1984, b.messages(200_000, 64), "the nearest multiple")
}

func TestFlatnessIsTheDearestOverTheCheapest(t *testing.T) {
	t.Parallel()
	costs := func(micros ...int) (figures []contender.Figures) {
		for _, micro := range micros {
			figures = append(figures, contender.Figures{Messages: 1, CPU: time.Duration(micro) * time.Microsecond})
		}
		return figures
	}
	d := comparison{order: []string{"a", "b"}, figures: map[string][]contender.Figures{"a": costs(10, 10, 40), "b": costs(20, 10, 10)}}
	assert.Equal(t, report.Spread{Value: 1, Min: 1, Max: 4}, d.flatness(cpu))
}

// A contender that loses starts, or sends some twice, fails the run.
func TestWhatTheSinkDidNotGetExactlyOnceFailsTheRun(t *testing.T) {
	t.Parallel()
	to, err := startNull(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, to.close()) })
	b := bench{rounds: 1}
	start := func(messages int) *contender.Process {
		task := contender.Task{Name: contender.Limit, Ingress: to.url(), Messages: messages, Parallelism: 2}
		process, err := contender.Start(t.Context(), roleContender, task)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, process.Close()) })
		return process
	}
	honest := start(10)
	figures, err := b.goOnce(t.Context(), honest, to, contender.Round{Prefix: "a-"})
	require.NoError(t, err)
	assert.Equal(t, 10, figures.Messages)
	assert.Positive(t, figures.CPU)
	assert.Positive(t, figures.Mallocs)

	losing := start(10)
	losing.Task.Messages = 11
	_, err = b.goOnce(t.Context(), losing, to, contender.Round{Prefix: "b-"})
	require.EqualError(t, err, "limit: of 11 starts the sink got 10, 0 of them again, and 0 strays")

	twice := twiceIngress{to}
	_, err = b.goOnce(t.Context(), honest, twice, contender.Round{Prefix: "c-"})
	require.EqualError(t, err, "limit: of 10 starts the sink got 10, 10 of them again, and 0 strays")
}

// twiceIngress has had every start before.
type twiceIngress struct{ *null }

func (i twiceIngress) expect(ctx context.Context, prefix string, count int) error {
	if err := i.null.expect(ctx, prefix, count); err != nil {
		return err
	}
	task := contender.Task{Name: contender.Limit, Ingress: i.url(), Messages: count, Parallelism: 1}
	process, err := contender.Start(ctx, roleContender, task)
	if err != nil {
		return err
	}
	if _, err := process.Do(ctx, contender.Round{Prefix: prefix}); err != nil {
		return err
	}
	return process.Close()
}

func TestEveryBodyHasItsSizeAndItsNumber(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 7, 999_999} {
		body := contender.Body(n, contender.BodySize)
		assert.Len(t, body, contender.BodySize)
		assert.Contains(t, body, strings.Repeat("x", 3))
	}
}
