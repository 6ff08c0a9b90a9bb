package blocked

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// endless is a Redis with long streams that take no memory: every entry has the same body. Its connections are in
// memory, so that time can be virtual.
type endless struct {
	length int // of each stream
	fields []string
}

// dial is a go-redis dialer.
func (e *endless) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer func() { _ = server.Close() }()
		e.serve(server)
	}()
	return client, nil
}

// serve answers commands until the client hangs up.
func (e *endless) serve(connection net.Conn) {
	in, out := bufio.NewReader(connection), bufio.NewWriter(connection)
	var queue [][]string // of a transaction; nil outside one
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		switch name := strings.ToUpper(command[0]); {
		case name == "MULTI":
			queue = [][]string{}
			fmt.Fprint(out, "+OK\r\n")
		case name == "EXEC":
			fmt.Fprintf(out, "*%d\r\n", len(queue))
			for _, command := range queue {
				e.answer(out, command)
			}
			queue = nil
		case queue != nil:
			queue = append(queue, command)
			fmt.Fprint(out, "+QUEUED\r\n")
		default:
			e.answer(out, command)
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// answer knows what a Consumer asks. Nothing is stored, and writes are forgotten.
func (e *endless) answer(out io.Writer, command []string) {
	switch strings.ToUpper(command[0]) {
	case "XREAD":
		e.read(out, command)
	case "HMGET":
		fields := command[2:]
		fmt.Fprintf(out, "*%d\r\n%s", len(fields), strings.Repeat("$-1\r\n", len(fields)))
	case "EVALSHA", "EVAL":
		if command[2] == "1" { // the tail of a stream: length, last id, added, first and last entry
			last := strconv.Itoa(e.length) + "-0"
			array(out, strconv.Itoa(e.length), last, strconv.Itoa(e.length), "1-0", last)
			return
		}
		array(out, make([]string, (len(command)-5-3)/5)...) // no reset for any of the positions written
	default:
		fmt.Fprintf(out, "-ERR unknown command '%s'\r\n", command[0])
	}
}

// read answers XREAD COUNT n BLOCK ms STREAMS key id, of a stream that has more.
func (e *endless) read(out io.Writer, command []string) {
	count, _ := strconv.Atoi(command[2])
	ms, _, _ := strings.Cut(command[len(command)-1], "-")
	after, _ := strconv.Atoi(ms)
	fmt.Fprint(out, "*1\r\n*2\r\n")
	bulk(out, command[len(command)-2])
	fmt.Fprintf(out, "*%d\r\n", count)
	for n := after + 1; n <= after+count; n++ {
		fmt.Fprint(out, "*2\r\n")
		bulk(out, strconv.Itoa(n)+"-0")
		array(out, e.fields...)
	}
}

func array(out io.Writer, texts ...string) {
	fmt.Fprintf(out, "*%d\r\n", len(texts))
	for _, text := range texts {
		bulk(out, text)
	}
}

func bulk(out io.Writer, text string) { fmt.Fprintf(out, "$%d\r\n%s\r\n", len(text), text) }

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	command := make([]string, count)
	for i := range command {
		length, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:length])
	}
	return command, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q does not begin with %c", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
