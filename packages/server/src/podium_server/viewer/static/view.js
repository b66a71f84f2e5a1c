// The part of a plan that is in its window: how large it is drawn, and where it is scrolled to.

import { HEIGHT, WIDTH } from "./layout.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";

const CLOSEST = 2.5;
const READABLE = 0.92;  // the smallest text has 11 px; at this scale, it has 10 px
const MOST_HIGH = 0.56;  // of the window
const SETTLED = 300;  // milliseconds without an event

// The space that a plan has in pixels.
export function useSpace(box) {
  const [space, setSpace] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const measure = () => setSpace({ width: box.current.offsetWidth, height: Math.max(180, MOST_HIGH * innerHeight) });
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    watch.observe(document.documentElement);
    measure();
    return () => watch.disconnect();
  }, []);
  return space;
}

export function useZoom(box, space, drawn) {
  const [chosen, setChosen] = useState("readable");
  const anchor = useRef(null);
  const whole = Math.min(1, space.width / drawn.width, space.height / drawn.height);
  const scale = { readable: Math.max(READABLE, whole), whole }[chosen] ?? chosen;
  const zoom = (factor, x = box.current.clientWidth / 2, y = box.current.clientHeight / 2) => {
    anchor.current = { x, y, left: (box.current.scrollLeft + x) / scale, top: (box.current.scrollTop + y) / scale };
    setChosen(Math.min(CLOSEST, Math.max(0.05, scale * factor)));
  };
  const latest = useRef(zoom);
  latest.current = zoom;
  useLayoutEffect(() => {
    if (anchor.current === null) return;
    const { x, y, left, top } = anchor.current;
    box.current.scrollTo(left * scale - x, top * scale - y);
    anchor.current = null;
  }, [scale]);
  useEffect(() => {
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = box.current.getBoundingClientRect();
      latest.current(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
    };
    box.current.addEventListener("wheel", wheel, { passive: false });
  }, []);
  return { scale, zoom, fit: () => setChosen("whole"), isWhole: scale <= whole };
}

// Shows the chosen step. Without one, it shows the first step, and follows the step at work until the person scrolls.
export function useScroll(box, space, drawn, scale, at, { working, seen }) {
  const mover = useRef(null);
  const drag = useRef(null);
  const show = (index, by) => {
    const node = drawn.nodes[index];
    if (!node || !space.width) return;
    mover.current = by;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = box.current;
    const place = by === null ? centred : nearest;
    box.current.scrollTo(
      place(scrollLeft, clientWidth, node.x * scale, WIDTH * scale),
      place(scrollTop, clientHeight, node.y * scale, HEIGHT * scale),
    );
  };
  useLayoutEffect(() => {
    if (at !== undefined) show(at, "person");
    else if (mover.current === null) show(0, null);
  }, [at, drawn, space.width]);
  useEffect(() => {
    if (working < 0 || mover.current === "person") return;
    // The events of a run that was recorded come at once: its steps are not followed.
    const timer = setTimeout(() => mover.current !== "person" && show(working, "work"), SETTLED);
    return () => clearTimeout(timer);
  }, [seen, working, drawn, space.width]);
  return {
    onWheel: () => (mover.current = "person"),
    onPointerDown: (event) => {
      mover.current = "person";
      drag.current = { x: event.clientX + box.current.scrollLeft, y: event.clientY + box.current.scrollTop };
    },
    onPointerMove: (event) => {
      if (drag.current === null || event.pointerType !== "mouse" || !(event.buttons & 1)) return;
      box.current.scrollTo(drag.current.x - event.clientX, drag.current.y - event.clientY);
    },
    onPointerUp: () => (drag.current = null),
    onDragStart: (event) => event.preventDefault(),
  };
}

// Where to scroll so that a box is in the window; a box that is in it does not move.
function nearest(scroll, most, middle, long) {
  const isIn = middle - long / 2 >= scroll && middle + long / 2 <= scroll + most;
  return isIn ? scroll : centred(scroll, most, middle);
}

const centred = (_, most, middle) => middle - most / 2;
