package looplab.asip;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;

/** Copies each change of a pin to another, until the controller's next line. */
final class Follow implements Task {
    private final Request request;
    private final BufferedReader in;
    private final PrintStream out;
    private volatile String failure;

    Follow(Request request, BufferedReader in, PrintStream out) {
        this.request = request;
        this.in = in;
        this.out = out;
    }

    @Override
    public String run(Board board) throws IOException, Refused, InterruptedException {
        int pin = request.number("out");
        byte[] rise = board.digital(pin, true);
        byte[] fall = board.digital(pin, false);
        board.onChange((high, stampNs) -> copy(board, high ? rise : fall));
        board.modes(pin, request.number("in"));
        // What is wired to the output: a notice of it for each copy would be no part of the wave.
        board.free(request.number("aside"));
        board.synchronise();
        board.begin();
        out.println("ok");
        in.readLine();
        board.check();
        if (failure != null) {
            throw new Refused(failure);
        }
        return board.silence();
    }

    /** Runs on the thread that read the change: no other has to be woken. */
    private void copy(Board board, byte[] message) {
        try {
            board.write(message);
        } catch (IOException error) {
            failure = error.getMessage();
        }
    }
}
