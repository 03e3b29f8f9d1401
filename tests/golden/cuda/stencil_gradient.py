@cuda.jit("void(int64, int64, CPointer(float64), CPointer(float64), int64, int64, int64, int64, int64, CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, x0, x1, s4, c5, c6, c7, c8, x2, b10, b11, b12, b13, b14, c15, s16, b17, c18, s19):
    # multiply: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s4 = int32(s4)
    c5 = int32(c5)
    c6 = int32(c6)
    c7 = int32(c7)
    c8 = int32(c8)
    b10 = int32(b10)
    b11 = int32(b11)
    b12 = int32(b12)
    b13 = int32(b13)
    b14 = int32(b14)
    c15 = int32(c15)
    s16 = int32(s16)
    b17 = int32(b17)
    c18 = int32(c18)
    s19 = int32(s19)
    v0 = x0[0]
    v10 = float64(2.0)
    v18 = float64(0.0)
    v31 = x0[0]
    v39 = float64(0.0)
    v52 = float64(2.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b12 <= i0 < b13:
            if i1 < b10:
                p0 = int32(i0 * s4 + i1)
                v12 = x1[p0]
                v13 = x1[p0 + c5]
                v14 = x1[p0 + c6]
                v15 = v13 + v14
                v16 = x1[p0 + c7]
                v17 = v15 + v16
                v19 = v17 + v18
                v20 = libdevice.fma(-v0, v12, v19)
                v21 = libdevice.dmul_rn(v20, v10)
                x2[p0] = v21
            elif i1 < b11:
                p1 = int32(i0 * s4 + i1)
                v1 = x1[p1]
                v2 = x1[p1 + c5]
                v3 = x1[p1 + c6]
                v4 = v2 + v3
                v5 = x1[p1 + c7]
                v6 = v4 + v5
                v7 = x1[p1 + c8]
                v8 = v6 + v7
                v9 = libdevice.fma(-v0, v1, v8)
                v11 = libdevice.dmul_rn(v9, v10)
                x2[p1] = v11
            else:
                p2 = int32(i0 * s4 + i1)
                v22 = x1[p2]
                v23 = x1[p2 + c5]
                v24 = x1[p2 + c6]
                v25 = v23 + v24
                v26 = v25 + v18
                v27 = x1[p2 + c8]
                v28 = v26 + v27
                v29 = libdevice.fma(-v0, v22, v28)
                v30 = libdevice.dmul_rn(v29, v10)
                x2[p2] = v30
        else:
            v33 = i0
            v34 = (b14 <= v33) & (v33 < b13)
            v36 = int32(i0 + c15)
            v37 = v36 if v34 else int32(0)
            v41 = (b12 <= v33) & (v33 < b17)
            v42 = int32(i0 + c18)
            v43 = v42 if v41 else int32(0)
            if i1 < b10:
                p3 = int32(i0 * s4 + i1)
                v54 = x1[p3]
                p4 = int32(v37 * s16 + i1)
                v55 = x1[p4]
                v56 = cuda.selp(v34, v55, v39)
                p5 = int32(v43 * s19 + i1)
                v57 = x1[p5]
                v58 = cuda.selp(v41, v57, v39)
                v59 = v56 + v58
                v60 = x1[p3 + c7]
                v61 = v59 + v60
                v62 = v61 + v39
                v63 = libdevice.fma(-v31, v54, v62)
                v64 = libdevice.dmul_rn(v63, v52)
                x2[p3] = v64
            elif i1 < b11:
                p6 = int32(i0 * s4 + i1)
                v32 = x1[p6]
                p7 = int32(v37 * s16 + i1)
                v38 = x1[p7]
                v40 = cuda.selp(v34, v38, v39)
                p8 = int32(v43 * s19 + i1)
                v44 = x1[p8]
                v45 = cuda.selp(v41, v44, v39)
                v46 = v40 + v45
                v47 = x1[p6 + c7]
                v48 = v46 + v47
                v49 = x1[p6 + c8]
                v50 = v48 + v49
                v51 = libdevice.fma(-v31, v32, v50)
                v53 = libdevice.dmul_rn(v51, v52)
                x2[p6] = v53
            else:
                p9 = int32(i0 * s4 + i1)
                v65 = x1[p9]
                p10 = int32(v37 * s16 + i1)
                v66 = x1[p10]
                v67 = cuda.selp(v34, v66, v39)
                p11 = int32(v43 * s19 + i1)
                v68 = x1[p11]
                v69 = cuda.selp(v41, v68, v39)
                v70 = v67 + v69
                v71 = v70 + v39
                v72 = x1[p9 + c8]
                v73 = v71 + v72
                v74 = libdevice.fma(-v31, v65, v73)
                v75 = libdevice.dmul_rn(v74, v52)
                x2[p9] = v75
        task = uint32(task + step)


@cuda.jit("void(int64, int64, CPointer(float64), int64, int64, int64, int64, int64, CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, x0, s3, c4, c5, c6, c7, x1, s9, b10, b11, c12, c13, b14, b15, b16, b17, c18, b19, b20, c21, s22, c23, s24, c25, s26, c27):
    # add_slice: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    c4 = int32(c4)
    c5 = int32(c5)
    c6 = int32(c6)
    c7 = int32(c7)
    s9 = int32(s9)
    b10 = int32(b10)
    b11 = int32(b11)
    c12 = int32(c12)
    c13 = int32(c13)
    b14 = int32(b14)
    b15 = int32(b15)
    b16 = int32(b16)
    b17 = int32(b17)
    c18 = int32(c18)
    b19 = int32(b19)
    b20 = int32(b20)
    c21 = int32(c21)
    s22 = int32(s22)
    c23 = int32(c23)
    s24 = int32(s24)
    c25 = int32(c25)
    s26 = int32(s26)
    c27 = int32(c27)
    v36 = float64(0.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b16 <= i0 < b17:
            if i1 < b14:
                v7 = i1
                v8 = (b10 <= v7) & (v7 < b11)
                v10 = int32(i1 + c12)
                v11 = v10 if v8 else int32(0)
                p0 = int32(i0 * s3 + i1)
                v12 = x0[p0 + c4]
                p1 = int32(i0 * s3 + v11)
                v13 = x0[p1]
                v14 = v12 + v13
                v15 = cuda.selp(v8, v14, v12)
                v16 = x0[p1 + c13]
                v17 = v15 + v16
                v18 = cuda.selp(v8, v17, v15)
                p2 = int32(i0 * s9 + i1)
                x1[p2] = v18
            elif i1 < b15:
                p3 = int32(i0 * s3 + i1)
                v0 = x0[p3 + c4]
                v1 = x0[p3 + c5]
                v2 = v0 + v1
                v3 = x0[p3 + c6]
                v4 = v2 + v3
                v5 = x0[p3 + c7]
                v6 = v4 + v5
                p4 = int32(i0 * s9 + i1)
                x1[p4] = v6
            elif i1 < b11:
                p5 = int32(i0 * s3 + i1)
                v19 = x0[p5 + c5]
                v20 = x0[p5 + c6]
                v21 = v19 + v20
                v22 = x0[p5 + c7]
                v23 = v21 + v22
                p6 = int32(i0 * s9 + i1)
                x1[p6] = v23
            else:
                p7 = int32(i0 * s3 + i1)
                v24 = x0[p7 + c5]
                p8 = int32(i0 * s9 + i1)
                x1[p8] = v24
        else:
            v25 = i0
            v26 = (b16 <= v25) & (v25 < n0)
            v28 = int32(i0 + c18)
            v29 = v28 if v26 else int32(0)
            v30 = (0 <= v25) & (v25 < b17)
            v31 = v25 if v30 else int32(0)
            v32 = (b19 <= v25) & (v25 < b20)
            v33 = int32(i0 + c21)
            v34 = v33 if v32 else int32(0)
            if i1 < b14:
                v47 = i1
                v48 = (b10 <= v47) & (v47 < b11)
                v49 = int32(i1 + c12)
                v50 = v49 if v48 else int32(0)
                v51 = v26 & v48
                v52 = v30 & v48
                p9 = int32(v34 * s22 + i1)
                v53 = x0[p9]
                v54 = cuda.selp(v32, v53, v36)
                p10 = int32(v31 * s24 + v50)
                v55 = x0[p10]
                v56 = v54 + v55
                v57 = cuda.selp(v52, v56, v54)
                p11 = int32(v29 * s26 + v50)
                v58 = x0[p11]
                v59 = v57 + v58
                v60 = cuda.selp(v51, v59, v57)
                p12 = int32(i0 * s9 + i1)
                x1[p12] = v60
            elif i1 < b15:
                p13 = int32(v34 * s22 + i1)
                v35 = x0[p13]
                v37 = cuda.selp(v32, v35, v36)
                v38 = x0[p13 + c23]
                v39 = v37 + v38
                v40 = cuda.selp(v32, v39, v37)
                p14 = int32(v31 * s24 + i1)
                v41 = x0[p14 + c25]
                v42 = v40 + v41
                v43 = cuda.selp(v30, v42, v40)
                p15 = int32(v29 * s26 + i1)
                v44 = x0[p15 + c27]
                v45 = v43 + v44
                v46 = cuda.selp(v26, v45, v43)
                p16 = int32(i0 * s9 + i1)
                x1[p16] = v46
            elif i1 < b11:
                p17 = int32(v34 * s22 + i1)
                v61 = x0[p17 + c23]
                v62 = v36 + v61
                v63 = cuda.selp(v32, v62, v36)
                p18 = int32(v31 * s24 + i1)
                v64 = x0[p18 + c25]
                v65 = v63 + v64
                v66 = cuda.selp(v30, v65, v63)
                p19 = int32(v29 * s26 + i1)
                v67 = x0[p19 + c27]
                v68 = v66 + v67
                v69 = cuda.selp(v26, v68, v66)
                p20 = int32(i0 * s9 + i1)
                x1[p20] = v69
            else:
                p21 = int32(v34 * s22 + i1)
                v70 = x0[p21 + c23]
                v71 = v36 + v70
                v72 = cuda.selp(v32, v71, v36)
                p22 = int32(i0 * s9 + i1)
                x1[p22] = v72
        task = uint32(task + step)


@cuda.jit("void(int64, int64, CPointer(float64), int64, CPointer(float64), CPointer(float64), int64, int64, CPointer(float64))")
def kernel(n0, n1, x0, s3, x1, x2, s6, c7, x3):
    # add: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    s6 = int32(s6)
    c7 = int32(c7)
    v2 = x1[0]
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        p0 = int32(i0 * s3 + i1)
        v0 = x0[p0]
        v1 = -v0
        p1 = int32(i0 * s6 + i1)
        v3 = x2[p1 + c7]
        v4 = libdevice.fma(v1, v2, v3)
        x3[p0] = v4
        task = uint32(task + step)
