package looplab.asip;

import java.io.IOException;

/** What a worker does with a board that is ready; returns the facts of its answer, {@code  name=value} each. */
interface Task {
    String run(Board board) throws IOException, Refused, InterruptedException;
}
