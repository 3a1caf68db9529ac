// Holds what is the same of everything that is shown at the address of one job.

export class JobAddressView {
  onStatus() {}

  onShown() {
    window.scrollTo(0, 0);
    document.getElementById("main").focus({ preventScroll: true });
  }

  onKey(event) {
    if (event.key === "Escape") location.hash = "#/";
  }
}
