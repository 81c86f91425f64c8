// Hostile is a server that does wrong, in the way its first argument names, for
// the scenarios of bad input.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "exit": // ends at once, and says why
		fmt.Fprintln(os.Stderr, "hostile: cannot find my database")
		os.Exit(3)
	case "hang": // reads, and never answers
		fmt.Fprintln(os.Stderr, "hostile: thinking")
		discard()
		time.Sleep(time.Hour)
	case "garbage": // writes what is not JSON
		fmt.Println("Welcome to my server! \x1b[1mListening\x1b[0m on nothing.")
		fmt.Println(`{"jsonrpc":"2.0","id":`)
		discard()
		time.Sleep(time.Hour)
	case "flood": // one line without an end
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := os.Stdout.Write(chunk); err != nil {
				return
			}
		}
	case "banner": // a line of text first, as many real servers do; then right
		fmt.Println("Starting server...")
		answer("")
	case "silent-call": // answers everything but calls
		answer("tools/call")
	default:
		fmt.Fprintf(os.Stderr, "hostile: unknown mode %q\n", mode)
		os.Exit(2)
	}
}

// discard reads the input to its end, so that the writer never waits.
func discard() {
	go func() {
		for s := bufio.NewReader(os.Stdin); ; {
			if _, err := s.ReadByte(); err != nil {
				return
			}
		}
	}()
}

// answer is the least of an MCP server, which leaves one method unanswered.
func answer(leave string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &req) != nil || req.ID == nil || req.Method == leave {
			continue
		}
		result := "{}"
		switch req.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"nothing","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":"done"}]}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
	}
}
